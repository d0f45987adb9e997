"""What one training step does with gradients."""
