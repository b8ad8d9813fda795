"""What ships for trying the product out: the demo's people, fake providers, engines, and the check from outside."""
