"""Background work of the API process: batching, rate limits, reports and audits."""
