"""Devices, alerts, and the rules that decide whether and when an alert is sent."""
