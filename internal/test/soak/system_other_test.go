//go:build !linux

package soak

// systemRoles returns the roles that exist only on this system.
func systemRoles() map[string]func() error { return nil }
