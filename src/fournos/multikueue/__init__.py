"""The MultiKueue adapter: any custom resource with spec.managedBy runs on a worker cluster."""
