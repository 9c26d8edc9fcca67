package quota

// A Holder is a client whose share of a limit is counted: an authenticated principal or, without one, a network. The
// zero Holder is the client of a link without either, such as stdio: it has no share.
type Holder struct {
	name          string
	authenticated bool
}

// HolderOf returns the holder for a client. principal is "" for a client that is not authenticated, and network is
// "" if it is not known.
func HolderOf(principal, network string) Holder {
	if principal != "" {
		return Holder{principal, true}
	}
	return Holder{network, false}
}

// hasShare reports whether the holder has a share of its own.
func (h Holder) hasShare() bool { return h.name != "" }
