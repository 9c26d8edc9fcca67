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

// AppendJSON appends the filter as a JSON object.
func (s *SubscriptionFilter) AppendJSON(dst []byte) ([]byte, error) {
	type fields SubscriptionFilter
	return appendFields(dst, (*fields)(s))
}

// MarshalJSON returns the filter as a JSON object.
func (s SubscriptionFilter) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil) }

// UnmarshalJSON decodes the filter. The error is a *[DecodeError].
func (s *SubscriptionFilter) UnmarshalJSON(data []byte) error {
	type fields SubscriptionFilter
	return decode(data, (*fields)(s))
}

// SubscriptionsListenParams are those of subscriptions/listen (since
// 2026-07-28).
type SubscriptionsListenParams struct {
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

// SubscriptionsAcknowledgedParams are those of
// notifications/subscriptions/acknowledged (since 2026-07-28).
type SubscriptionsAcknowledgedParams struct {
	// Notifications is the part of the filter that the server has agreed to.
	Notifications SubscriptionFilter `json:"notifications"`
	Meta          Meta               `json:"_meta,omitzero"`
	Extra         Extra              `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (s *SubscriptionsAcknowledgedParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields SubscriptionsAcknowledgedParams
	return appendFields(dst, (*fields)(s))
}

// MarshalJSON returns the parameters as a JSON object.
func (s SubscriptionsAcknowledgedParams) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (s *SubscriptionsAcknowledgedParams) UnmarshalJSON(data []byte) error {
	type fields SubscriptionsAcknowledgedParams
	return decode(data, (*fields)(s))
}

// SubscribeParams are those of resources/subscribe (until 2025-11-25).
type SubscribeParams struct {
	URI   string `json:"uri"`
	Meta  Meta   `json:"_meta,omitzero"`
	Extra Extra  `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (s *SubscribeParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields SubscribeParams
	return appendFields(dst, (*fields)(s))
}

// MarshalJSON returns the parameters as a JSON object.
func (s SubscribeParams) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (s *SubscribeParams) UnmarshalJSON(data []byte) error {
	type fields SubscribeParams
	return decode(data, (*fields)(s))
}

// UnsubscribeParams are those of resources/unsubscribe (until 2025-11-25).
type UnsubscribeParams struct {
	URI   string `json:"uri"`
	Meta  Meta   `json:"_meta,omitzero"`
	Extra Extra  `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (u *UnsubscribeParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields UnsubscribeParams
	return appendFields(dst, (*fields)(u))
}

// MarshalJSON returns the parameters as a JSON object.
func (u UnsubscribeParams) MarshalJSON() ([]byte, error) { return u.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (u *UnsubscribeParams) UnmarshalJSON(data []byte) error {
	type fields UnsubscribeParams
	return decode(data, (*fields)(u))
}

// ResourceUpdatedParams are those of notifications/resources/updated.
type ResourceUpdatedParams struct {
	// URI is that of the resource, or of a part of the one that is watched.
	URI   string `json:"uri"`
	Meta  Meta   `json:"_meta,omitzero"`
	Extra Extra  `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (r *ResourceUpdatedParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields ResourceUpdatedParams
	return appendFields(dst, (*fields)(r))
}

// MarshalJSON returns the parameters as a JSON object.
func (r ResourceUpdatedParams) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (r *ResourceUpdatedParams) UnmarshalJSON(data []byte) error {
	type fields ResourceUpdatedParams
	return decode(data, (*fields)(r))
}
