"""AppWrapper: any resources, queued and run as one."""
