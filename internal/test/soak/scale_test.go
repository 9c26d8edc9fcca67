//go:build !soak

package soak

import "testing"

// oversize is the length of an oversized message, in bytes.
const oversize = 64 << 20

// fullRun reports whether times are checked.
const fullRun = false

// scaled returns a count for a test: small without the build tag soak.
func scaled(_ testing.TB, small, _ int) int { return small }
