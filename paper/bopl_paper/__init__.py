"""The paper's experiments: configuration, runner, tables, figure, and the command ``bopl reproduce``."""
