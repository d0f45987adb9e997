# The step that the rows were looked up for.
torch.nn.functional.binary_cross_entropy_with_logits(logits, labels).backward()
optimizer.step()
