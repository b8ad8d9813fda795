"""What runs in the peers' environments, as scripts: nothing of ours but these files can be imported there."""
