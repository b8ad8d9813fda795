"""What `notifier bench` measures. It ships with the product, because the verb must work where only the package is."""
