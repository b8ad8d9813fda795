"""Push notifications: the pipeline that sends alerts, and its steps."""
