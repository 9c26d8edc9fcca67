package mcp

// UnsupportedVersionData is the data of an error with the code
// [CodeUnsupportedVersion] (since 2026-07-28).
type UnsupportedVersionData struct {
	Supported []Version `json:"supported"`
	Requested Version   `json:"requested"`
	Extra     Extra     `json:",embed"`
}

// MarshalJSON returns the data as a JSON object.
func (u UnsupportedVersionData) MarshalJSON() ([]byte, error) {
	type fields UnsupportedVersionData
	return appendFields(nil, (*fields)(&u))
}

// UnmarshalJSON decodes the data. The error is a *[DecodeError].
func (u *UnsupportedVersionData) UnmarshalJSON(data []byte) error {
	type fields UnsupportedVersionData
	return decode(data, (*fields)(u))
}

// MissingClientCapabilityData is the data of an error with the code
// [CodeMissingClientCapability] (since 2026-07-28).
type MissingClientCapabilityData struct {
	// RequiredCapabilities are those the client would have to declare.
	RequiredCapabilities ClientCapabilities `json:"requiredCapabilities"`
	Extra                Extra              `json:",embed"`
}

// MarshalJSON returns the data as a JSON object.
func (m MissingClientCapabilityData) MarshalJSON() ([]byte, error) {
	type fields MissingClientCapabilityData
	return appendFields(nil, (*fields)(&m))
}

// UnmarshalJSON decodes the data. The error is a *[DecodeError].
func (m *MissingClientCapabilityData) UnmarshalJSON(data []byte) error {
	type fields MissingClientCapabilityData
	return decode(data, (*fields)(m))
}

// URLElicitationRequiredData is the data of an error with the code
// [CodeURLElicitationRequired] (2025-11-25 only).
type URLElicitationRequiredData struct {
	// Elicitations are the URLs to visit before the call is made again.
	Elicitations []ElicitParams `json:"elicitations"`
	Extra        Extra          `json:",embed"`
}

// MarshalJSON returns the data as a JSON object.
func (u URLElicitationRequiredData) MarshalJSON() ([]byte, error) {
	type fields URLElicitationRequiredData
	return appendFields(nil, (*fields)(&u))
}

// UnmarshalJSON decodes the data. The error is a *[DecodeError].
func (u *URLElicitationRequiredData) UnmarshalJSON(data []byte) error {
	type fields URLElicitationRequiredData
	return decode(data, (*fields)(u))
}
