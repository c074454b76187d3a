"""The environments: PettingZoo AEC (`aec`) and Gymnasium for a single learner (`single`)."""
