// Package alerts tests the alert rules of ../prometheus: it fires each of them by a fault of real processes. It is a module of its own
// because the library of Prometheus has many dependencies. The tests have the build tag soak, and need redis-server.
package alerts
