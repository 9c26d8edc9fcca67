package mcp

// A Version names a revision of the protocol, as it stands on the wire.
type Version string

// The revisions this module speaks.
const (
	Version20241105 Version = "2024-11-05"
	Version20250326 Version = "2025-03-26"
	Version20250618 Version = "2025-06-18"
	Version20251125 Version = "2025-11-25"
	Version20260728 Version = "2026-07-28"

	// LatestVersion is the newest of them.
	LatestVersion = Version20260728
	// LatestLegacyVersion is the newest that opens with a handshake.
	LatestLegacyVersion = Version20251125
)

// Versions returns the revisions this module speaks, newest first.
func Versions() []Version {
	return []Version{Version20260728, Version20251125, Version20250618, Version20250326, Version20241105}
}

// Known says whether this module speaks the revision.
func (v Version) Known() bool {
	switch v {
	case Version20241105, Version20250326, Version20250618, Version20251125, Version20260728:
		return true
	}
	return false
}

// Modern says whether requests of this revision describe themselves, without a
// handshake. Only the packages that carry the protocol may ask.
func (v Version) Modern() bool { return v >= Version20260728 }
