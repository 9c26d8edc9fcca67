package mcp

// A Version is a version of the protocol.
type Version string

// The versions that this module supports.
const (
	Version20241105 Version = "2024-11-05"
	Version20250326 Version = "2025-03-26"
	Version20250618 Version = "2025-06-18"
	Version20251125 Version = "2025-11-25"
	Version20260728 Version = "2026-07-28"

	// LatestVersion is the newest version.
	LatestVersion = Version20260728
	// LatestLegacyVersion is the newest version with a handshake.
	LatestLegacyVersion = Version20251125
)

// Versions returns the supported versions, newest first.
func Versions() []Version {
	return []Version{Version20260728, Version20251125, Version20250618, Version20250326, Version20241105}
}

// Known reports whether this module supports the version.
func (v Version) Known() bool {
	switch v {
	case Version20241105, Version20250326, Version20250618, Version20251125, Version20260728:
		return true
	}
	return false
}

// Modern reports whether requests of this version describe themselves, without a handshake. It is
// for packages that implement the protocol.
func (v Version) Modern() bool { return v >= Version20260728 }
