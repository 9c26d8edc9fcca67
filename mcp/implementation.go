package mcp

// An Implementation names a client or server and its version. It is what a
// program says of itself: base no decision on it.
type Implementation struct {
	Name string `json:"name"`
	// Title is the name for people (since 2025-06-18).
	Title   string `json:"title,omitzero"`
	Version string `json:"version"`
	// Description says what the program does (since 2025-11-25).
	Description string `json:"description,omitzero"`
	// WebsiteURL is where to read more (since 2025-11-25).
	WebsiteURL string `json:"websiteUrl,omitzero"`
	// Icons are pictures for a user interface (since 2025-11-25).
	Icons []Icon `json:"icons,omitzero"`
	Extra Extra  `json:",embed"`
}

// MarshalJSON returns the implementation as a JSON object.
func (i Implementation) MarshalJSON() ([]byte, error) {
	type fields Implementation
	return appendFields(nil, (*fields)(&i))
}

// UnmarshalJSON decodes the implementation. The error is a *[DecodeError].
func (i *Implementation) UnmarshalJSON(data []byte) error {
	type fields Implementation
	return decode(data, (*fields)(i))
}

// An Icon is a picture for a user interface (since 2025-11-25).
type Icon struct {
	// Src is an https or data URI. Who shows icons must refuse other schemes.
	Src      string `json:"src"`
	MIMEType string `json:"mimeType,omitzero"`
	// Sizes are those the picture is good for: "48x48", or "any" for one that
	// scales. None means any.
	Sizes []string `json:"sizes,omitzero"`
	// Theme is the background the icon is made for, "" for any.
	Theme IconTheme `json:"theme,omitzero"`
	Extra Extra     `json:",embed"`
}

// MarshalJSON returns the icon as a JSON object.
func (i Icon) MarshalJSON() ([]byte, error) {
	type fields Icon
	return appendFields(nil, (*fields)(&i))
}

// UnmarshalJSON decodes the icon. The error is a *[DecodeError].
func (i *Icon) UnmarshalJSON(data []byte) error {
	type fields Icon
	return decode(data, (*fields)(i))
}

// An IconTheme is the background that an icon is made for.
type IconTheme string

// The themes of icons.
const (
	IconLight IconTheme = "light"
	IconDark  IconTheme = "dark"
)
