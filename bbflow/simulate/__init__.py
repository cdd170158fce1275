"""The real waves, policies and admission on a simulated clock, with links and servers that are shared."""
