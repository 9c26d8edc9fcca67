//go:build soak

package growth

// bridgeRows are those of bridges, policies, pins and approvals.
func bridgeRows() []row { return nil }
