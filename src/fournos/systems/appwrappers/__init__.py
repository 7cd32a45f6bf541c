"""The AppWrapper operator: any resources, queued and run as one unit."""
