// Package sessiontest has an HTTP server of version 2025-11-25 that loses its sessions, and the forms in which servers report
// that, for tests.
package sessiontest
