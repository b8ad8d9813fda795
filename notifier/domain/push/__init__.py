"""Devices, alerts, and rules that decide whether and when an alert is sent."""
