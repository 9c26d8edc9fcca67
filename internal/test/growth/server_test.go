//go:build soak

package growth

import "slices"

// serverRows are those of a server without a bridge.
func serverRows() []row {
	return slices.Concat(catalogRows(), sessionRows(), valueRows(), stateRows(), storeRows())
}
