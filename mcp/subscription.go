package mcp

// A SubscriptionFilter is what a client wants to be told of, or what a server
// has agreed to tell (since 2026-07-28).
type SubscriptionFilter struct {
	ToolsListChanged     bool `json:"toolsListChanged,omitzero"`
	PromptsListChanged   bool `json:"promptsListChanged,omitzero"`
	ResourcesListChanged bool `json:"resourcesListChanged,omitzero"`
	// ResourceSubscriptions are the URIs of resources whose updates are wanted.
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitzero"`
	Extra                 Extra    `json:",embed"`
}

// MarshalJSON returns the filter as a JSON object.
func (s SubscriptionFilter) MarshalJSON() ([]byte, error) {
	type fields SubscriptionFilter
	return appendFields(nil, (*fields)(&s))
}

// UnmarshalJSON decodes the filter. The error is a *[DecodeError].
func (s *SubscriptionFilter) UnmarshalJSON(data []byte) error {
	type fields SubscriptionFilter
	return decode(data, (*fields)(s))
}

// SubscriptionsListenParams are those of subscriptions/listen and of
// notifications/subscriptions/acknowledged (since 2026-07-28).
type SubscriptionsListenParams struct {
	// Notifications is what the client wants, or what the server has agreed to.
	Notifications SubscriptionFilter `json:"notifications"`
	Meta          Meta               `json:"_meta,omitzero"`
	Extra         Extra              `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (s *SubscriptionsListenParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields SubscriptionsListenParams
	return appendFields(dst, (*fields)(s))
}

// MarshalJSON returns the parameters as a JSON object.
func (s SubscriptionsListenParams) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (s *SubscriptionsListenParams) UnmarshalJSON(data []byte) error {
	type fields SubscriptionsListenParams
	return decode(data, (*fields)(s))
}

// ResourceParams are those of resources/subscribe and resources/unsubscribe (until
// 2025-11-25), and of notifications/resources/updated.
type ResourceParams struct {
	// URI is that of the resource; of an update also of a part of the one that is watched.
	URI   string `json:"uri"`
	Meta  Meta   `json:"_meta,omitzero"`
	Extra Extra  `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (r *ResourceParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields ResourceParams
	return appendFields(dst, (*fields)(r))
}

// MarshalJSON returns the parameters as a JSON object.
func (r ResourceParams) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (r *ResourceParams) UnmarshalJSON(data []byte) error {
	type fields ResourceParams
	return decode(data, (*fields)(r))
}
