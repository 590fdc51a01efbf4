"""Values of the settings by which a deployment shares and names its streams."""
