package mcp

// A Change says that a list of a server has changed, or the content of a resource.
type Change struct {
	// Kind says which list has changed. The lists of resources and of templates change
	// together, as [KindResource].
	Kind Kind
	// URI is that of the resource whose content has changed; "" if a list has.
	URI string
	// For is the principal (see [Caller]) whose subscribers are notified, "" for all. It
	// is for servers and never sent.
	For string
}
