"""The job framework: an API client, reconcilers and Kueue's protocol, without any kind of this product."""
