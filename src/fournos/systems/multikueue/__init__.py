"""The MultiKueue adapter: dispatches any custom resource with spec.managedBy to a worker cluster."""
