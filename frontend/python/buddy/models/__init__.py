"""Models that Buddy defines itself; each is an nn.Module with a stated calling convention."""
