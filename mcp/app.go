package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Constants of MCP Apps (SEP-1865, version 2026-01-26): views in HTML for the results of tools.
const (
	// ExtensionUI is the identifier of the extension in capabilities.
	ExtensionUI = "io.modelcontextprotocol/ui"
	// MIMETypeApp is the media type of views.
	MIMETypeApp = "text/html;profile=mcp-app"
	// SchemeUI starts the URIs of views.
	SchemeUI = "ui://"
	// MetaUI is the key for a [ToolUI] in the _meta of a tool, and for a [ResourceUI] in the _meta
	// of a view, in lists and in contents.
	MetaUI = "ui"
	// MetaUIResourceURI is the key that older servers use for ToolUI.ResourceURI. It is deprecated.
	MetaUIResourceURI = "ui/resourceUri"
)

// A ToolVisibility is who can call a tool.
type ToolVisibility string

// The visibilities of tools.
const (
	// VisibleToModel: a model sees the tool and can call it.
	VisibleToModel ToolVisibility = "model"
	// VisibleToApp: the views of the same server can call the tool.
	VisibleToApp ToolVisibility = "app"
)

// ToolUI says how a host shows a tool (MCP Apps).
type ToolUI struct {
	// ResourceURI is the resource that shows the results of the tool. It starts with ui://. "" means
	// that the tool has no view.
	ResourceURI string `json:"resourceUri,omitzero"`
	// Visibility is who can call the tool. nil means both. The host of the view enforces it: a
	// server lists and calls the tool for all clients. Clients without MCP Apps show each tool to
	// their models.
	Visibility []ToolVisibility `json:"visibility,omitzero"`
	Extra      Extra            `json:",embed"`
}

// VisibleTo reports whether the tool is visible to a model or to views. A host must not list a tool
// to a model, or call it for a view, if this is false.
func (u *ToolUI) VisibleTo(who ToolVisibility) bool {
	return u.Visibility == nil || slices.Contains(u.Visibility, who)
}

func (u *ToolUI) validate() error {
	if host, ok := strings.CutPrefix(u.ResourceURI, SchemeUI); u.ResourceURI != "" && (!ok || host == "") {
		return fmt.Errorf("resourceUri is a URI such as ui://shop/cart, not %.80q", u.ResourceURI)
	}
	if u.Visibility != nil && len(u.Visibility) == 0 {
		return fmt.Errorf("visibility has %q, %q or both", VisibleToModel, VisibleToApp)
	}
	for _, who := range u.Visibility {
		if who != VisibleToModel && who != VisibleToApp {
			return fmt.Errorf("visibility has %q, %q or both, not %.40q", VisibleToModel, VisibleToApp, who)
		}
	}
	return nil
}

// ResourceUI says how a host shows a view (MCP Apps). The zero value has no access to the network
// and no permissions.
type ResourceUI struct {
	// CSP lists the origins that the view may use. nil means none.
	CSP *CSP `json:"csp,omitzero"`
	// Permissions are features of the browser that the view asks for. The host may deny them.
	Permissions *UIPermissions `json:"permissions,omitzero"`
	// Domain is a dedicated origin for the view, in the format of the host. Default: the host
	// chooses the origin.
	Domain string `json:"domain,omitzero"`
	// PrefersBorder asks for a border and background, or for none. nil means that the host decides.
	PrefersBorder *bool `json:"prefersBorder,omitzero"`
	Extra         Extra `json:",embed"`
}

func (u *ResourceUI) validate() error {
	if u.CSP == nil {
		return nil
	}
	for _, list := range []struct {
		name    string
		origins []string
	}{
		{"connectDomains", u.CSP.ConnectDomains}, {"resourceDomains", u.CSP.ResourceDomains},
		{"frameDomains", u.CSP.FrameDomains}, {"baseUriDomains", u.CSP.BaseURIDomains},
	} {
		for _, origin := range list.origins {
			if !isOrigin(origin) {
				return fmt.Errorf("csp: %s has origins such as https://api.example.com or https://*.example.com, not %.80q", list.name, origin)
			}
		}
	}
	return nil
}

// isOrigin reports whether s is an origin for a Content-Security-Policy. Any other character could
// add directives to the policy.
func isOrigin(s string) bool {
	scheme, host, _ := strings.Cut(s, "://")
	host = strings.TrimPrefix(host, "*.")
	return slices.Contains([]string{"https", "http", "wss", "ws"}, scheme) && host != "" &&
		!strings.ContainsFunc(host, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-.:[]", r))
		})
}

// A CSP lists the origins that a view may use, for the Content-Security-Policy of the host. An
// origin has a scheme and a host, such as https://api.example.com, https://*.example.com or
// wss://localhost:8080.
type CSP struct {
	// ConnectDomains are for requests and WebSockets (connect-src).
	ConnectDomains []string `json:"connectDomains,omitzero"`
	// ResourceDomains are for images, scripts, styles, fonts and media.
	ResourceDomains []string `json:"resourceDomains,omitzero"`
	// FrameDomains are for nested frames (frame-src).
	FrameDomains []string `json:"frameDomains,omitzero"`
	// BaseURIDomains are for the base URI of the document (base-uri).
	BaseURIDomains []string `json:"baseUriDomains,omitzero"`
	Extra          Extra    `json:",embed"`
}

// UIPermissions are features of the browser that a view asks for.
type UIPermissions struct {
	Camera         *EmptyObject `json:"camera,omitzero"`
	Microphone     *EmptyObject `json:"microphone,omitzero"`
	Geolocation    *EmptyObject `json:"geolocation,omitzero"`
	ClipboardWrite *EmptyObject `json:"clipboardWrite,omitzero"`
	Extra          Extra        `json:",embed"`
}

// ToolUI returns [MetaUI] of a tool's _meta, or the zero value if there is none. It also reads
// [MetaUIResourceURI]. The error says that the value is not what [Meta.SetToolUI] accepts.
func (m Meta) ToolUI() (ToolUI, error) {
	var ui ToolUI
	err := m.decodeUI(&ui)
	if old := m.Get(MetaUIResourceURI); err == nil && ui.ResourceURI == "" && jsonscan.KindOf(old) == jsonscan.String {
		ui.ResourceURI = jsonscan.Unquote(old)
	}
	if err == nil {
		err = ui.validate()
	}
	if err != nil {
		return ToolUI{}, uiError(err)
	}
	return ui, nil
}

// SetToolUI sets [MetaUI] in a tool's _meta. The error says which value is invalid; m is then
// unchanged.
func (m *Meta) SetToolUI(ui ToolUI) error {
	err := ui.validate()
	if err == nil {
		err = m.encodeUI(ui)
	}
	return uiError(err)
}

// ResourceUI returns [MetaUI] of the _meta of a view, or the zero value if there is none. A host
// reads it from the contents of the view, and from its entry in the list if the contents have none.
// The error says that the value is not what [Meta.SetResourceUI] accepts.
func (m Meta) ResourceUI() (ResourceUI, error) {
	var ui ResourceUI
	err := m.decodeUI(&ui)
	if err == nil {
		err = ui.validate()
	}
	if err != nil {
		return ResourceUI{}, uiError(err)
	}
	return ui, nil
}

// SetResourceUI sets [MetaUI] in the _meta of a view. The error says which value is invalid; m is
// then unchanged.
func (m *Meta) SetResourceUI(ui ResourceUI) error {
	err := ui.validate()
	if err == nil {
		err = m.encodeUI(ui)
	}
	return uiError(err)
}

func (m Meta) decodeUI(ui json.Unmarshaler) error {
	value := m.Get(MetaUI)
	if value == nil {
		return nil
	}
	return ui.UnmarshalJSON(value)
}

func (m *Meta) encodeUI(ui json.Marshaler) error {
	value, err := ui.MarshalJSON()
	if err != nil {
		return err
	}
	return m.Set(MetaUI, value)
}

func uiError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("mcp: _meta.%s: %w", MetaUI, err)
}

// ShowsApps reports whether the client shows views of the type [MIMETypeApp] (MCP Apps). A tool can
// return text for the model alone if it is false.
func (c *ClientCapabilities) ShowsApps() bool {
	declared := c.Extensions[ExtensionUI]
	if declared == nil {
		return false
	}
	settings, err := jsonscan.ReadObject(declared)
	if err != nil {
		return false
	}
	var types []string
	return json.Unmarshal(settings.Get("mimeTypes"), &types) == nil && slices.Contains(types, MIMETypeApp)
}

// DeclareApps declares that the client shows views of the type [MIMETypeApp] (MCP Apps). It replaces
// the settings of [ExtensionUI], and leaves copies of c unchanged.
func (c *ClientCapabilities) DeclareApps() {
	extensions := maps.Clone(c.Extensions)
	if extensions == nil {
		extensions = make(map[string]json.RawMessage, 1)
	}
	extensions[ExtensionUI] = json.RawMessage(`{"mimeTypes":["` + MIMETypeApp + `"]}`)
	c.Extensions = extensions
}
