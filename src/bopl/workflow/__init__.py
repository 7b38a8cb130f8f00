"""From a file of decisions to an audited log, a policy, a verdict and a folder that tells how it came about."""
