"""Scripts for the peers' environments, where no other module of ours can be imported."""
