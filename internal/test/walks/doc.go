// Package walks compares the walks through the code in docs/architecture.md with the stacks of real calls.
package walks
