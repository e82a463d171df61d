"""What a deployment takes, worked out before anything is bought: bytes, bounds and cost."""
