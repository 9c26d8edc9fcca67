package describe

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Maximum sizes of the files in a bundle, in bytes.
const (
	maxProgram = 256 << 20
	maxIcon    = 1 << 20
)

// A Bundle is what an .mcpb bundle contains beside the description of its server.
type Bundle struct {
	// Files has the programs and the icon, for example os.DirFS("dist").
	Files fs.FS
	// Programs are the names in Files of static programs that serve stdio, by the operating system as
	// in GOOS: "darwin", "linux" or "windows". A bundle has no choice between architectures: for macOS,
	// use a universal binary, or write a bundle for each architecture.
	Programs map[string]string
	// Icon is the name in Files of a PNG image, preferably of 512 × 512 pixels. Default: none.
	Icon string

	// LongDescription explains the server in Markdown.
	LongDescription string
	// Documentation and Support are https URLs.
	Documentation, Support string
	// PrivacyPolicies are https URLs.
	PrivacyPolicies []string
	// Keywords are words to search for.
	Keywords []string

	// Args and Environment are passed to the program. ${user_config.KEY} is the value of a setting,
	// and ${__dirname} the folder of the unpacked bundle.
	Args        []string
	Environment map[string]string
	// Settings are the values that the application asks the user for.
	Settings map[string]Setting
}

// A Setting is a value that an application asks the user for.
type Setting struct {
	// Type is "string", "number", "boolean", "directory" or "file".
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required,omitzero"`
	// Default is a string, a number, a boolean, or for Multiple a list of strings. nil means none.
	Default any `json:"default,omitempty"`
	// Multiple allows several directories or files.
	Multiple bool `json:"multiple,omitzero"`
	// Sensitive marks a string that is stored securely. It cannot have a Default.
	Sensitive bool `json:"sensitive,omitzero"`
	// Min and Max bound a number.
	Min *float64 `json:"min,omitzero"`
	Max *float64 `json:"max,omitzero"`
}

// manifest is the manifest of a bundle.
type manifest struct {
	ManifestVersion string             `json:"manifest_version"`
	Name            string             `json:"name"`
	DisplayName     string             `json:"display_name,omitzero"`
	Version         string             `json:"version"`
	Description     string             `json:"description"`
	LongDescription string             `json:"long_description,omitzero"`
	Author          Author             `json:"author"`
	Repository      *repositoryJSON    `json:"repository,omitzero"`
	Homepage        string             `json:"homepage,omitzero"`
	Documentation   string             `json:"documentation,omitzero"`
	Support         string             `json:"support,omitzero"`
	Icon            string             `json:"icon,omitzero"`
	Server          manifestServer     `json:"server"`
	Tools           []Tool             `json:"tools,omitempty"`
	MoreTools       bool               `json:"tools_generated,omitzero"`
	Prompts         []Prompt           `json:"prompts,omitempty"`
	MorePrompts     bool               `json:"prompts_generated,omitzero"`
	Keywords        []string           `json:"keywords,omitempty"`
	License         string             `json:"license,omitzero"`
	PrivacyPolicies []string           `json:"privacy_policies,omitempty"`
	Compatibility   compatibility      `json:"compatibility"`
	Settings        map[string]Setting `json:"user_config,omitempty"`
}

type (
	repositoryJSON struct {
		Type string `json:"type"`
		URL  string `json:"url"`
	}
	manifestServer struct {
		Type       string        `json:"type"`
		EntryPoint string        `json:"entry_point"`
		Config     commandConfig `json:"mcp_config"`
	}
	commandConfig struct {
		Command   string                   `json:"command"`
		Args      []string                 `json:"args,omitempty"`
		Env       map[string]string        `json:"env,omitempty"`
		Overrides map[string]commandConfig `json:"platform_overrides,omitempty"`
	}
	compatibility struct {
		Platforms []string `json:"platforms"`
	}
)

// platforms are the names of operating systems in a manifest.
var platforms = map[string]string{"darwin": "darwin", "linux": "linux", "windows": "win32"}

const (
	manifestVersion = "0.3"
	iconName        = "icon.png"
	manifestName    = "manifest.json"
)

// A bundleFile is a file in a bundle.
type bundleFile struct {
	name   string // in the bundle
	source string // in Bundle.Files; "" for text
	text   []byte
	size   int64
	mode   fs.FileMode
}

// WriteBundle writes an .mcpb bundle: a zip archive with a manifest, the programs and the icon. The
// manifest has version 0.3 and the last part of [Server.Name]. The description also needs Author.Name
// and a semantic Version; remotes and packages are not written.
//
// The bytes depend only on the description and the files, and on the version of Go: names are sorted,
// and times and modes are fixed. Files are copied one after the other, and are not kept in memory.
//
// The error joins a *[FieldError] for each fault of the description, and nothing is written then.
// Otherwise it is an error of a file or of w, and what was written is not complete.
func (s Server) WriteBundle(w io.Writer, b *Bundle) error {
	var c checker
	c.identity(&s)
	c.bundle(&s, b)
	if err := c.err(); err != nil {
		return err
	}
	files, err := s.bundleFiles(b)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	archive := zip.NewWriter(w)
	for _, f := range files {
		if err := f.write(archive, b.Files); err != nil {
			return fmt.Errorf("describe: writing %s: %w", f.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	return nil
}

// bundleFiles returns the files of a bundle, sorted by name.
func (s *Server) bundleFiles(b *Bundle) ([]bundleFile, error) {
	var files []bundleFile
	m := s.manifest(b)
	if b.Icon != "" {
		icon, err := newBundleFile(b.Files, iconName, b.Icon, maxIcon, 0o644)
		if err != nil {
			return nil, err
		}
		if err := checkPNG(b.Files, b.Icon); err != nil {
			return nil, err
		}
		files = append(files, icon)
		m.Icon = iconName
	}
	for _, system := range sortedKeys(b.Programs) {
		program, err := newBundleFile(b.Files, s.programName(system), b.Programs[system], maxProgram, 0o755)
		if err != nil {
			return nil, err
		}
		files = append(files, program)
	}
	text, err := encode(m)
	if err != nil {
		return nil, err
	}
	files = append(files, bundleFile{name: manifestName, text: text, size: int64(len(text)), mode: 0o644})
	slices.SortFunc(files, func(a, b bundleFile) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// manifest returns the manifest without an icon.
func (s *Server) manifest(b *Bundle) *manifest {
	m := &manifest{
		ManifestVersion: manifestVersion, Name: s.shortName(), DisplayName: s.Title, Version: s.Version,
		Description: s.Description, LongDescription: b.LongDescription, Author: s.Author, Homepage: s.Website,
		Documentation: b.Documentation, Support: b.Support, Tools: s.Tools, MoreTools: s.MoreTools,
		MorePrompts: s.MorePrompts, Keywords: b.Keywords, License: s.License,
		PrivacyPolicies: b.PrivacyPolicies, Settings: b.Settings,
	}
	if s.Repository != nil {
		m.Repository = &repositoryJSON{"git", s.Repository.URL}
	}
	for _, prompt := range s.Prompts {
		if prompt.Text == "" {
			m.MorePrompts = true
		} else {
			m.Prompts = append(m.Prompts, prompt)
		}
	}
	config := &m.Server.Config
	for i, system := range sortedKeys(b.Programs) {
		m.Compatibility.Platforms = append(m.Compatibility.Platforms, platforms[system])
		command := "${__dirname}/" + s.programName(system)
		if i == 0 {
			m.Server.Type, m.Server.EntryPoint = "binary", s.programName(system)
			config.Command, config.Args, config.Env = command, b.Args, b.Environment
			continue
		}
		if config.Overrides == nil {
			config.Overrides = map[string]commandConfig{}
		}
		config.Overrides[platforms[system]] = commandConfig{Command: command}
	}
	return m
}

// shortName is the part of the name after the slash.
func (s *Server) shortName() string {
	_, name, _ := strings.Cut(s.Name, "/")
	return name
}

// programName returns the name of a program in the bundle.
func (s *Server) programName(system string) string {
	name := path.Join("server", platforms[system], s.shortName())
	if system == "windows" {
		name += ".exe"
	}
	return name
}

func newBundleFile(files fs.FS, name, source string, limit int64, mode fs.FileMode) (bundleFile, error) {
	info, err := fs.Stat(files, source)
	switch {
	case err != nil:
		return bundleFile{}, err
	case !info.Mode().IsRegular():
		return bundleFile{}, fmt.Errorf("%s is not a regular file", source)
	case info.Size() == 0 || info.Size() > limit:
		return bundleFile{}, fmt.Errorf("%s has %d bytes; expected 1 to %d", source, info.Size(), limit)
	}
	return bundleFile{name: name, source: source, size: info.Size(), mode: mode}, nil
}

// checkPNG checks the signature of an image.
func checkPNG(files fs.FS, name string) error {
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	signature := make([]byte, 8)
	if _, err := io.ReadFull(f, signature); err != nil || string(signature) != "\x89PNG\r\n\x1a\n" {
		return fmt.Errorf("%s is not a PNG image", name)
	}
	return nil
}

// write adds the file to an archive.
func (f *bundleFile) write(archive *zip.Writer, files fs.FS) error {
	header := &zip.FileHeader{
		Name: f.name, Method: zip.Deflate,
		Modified: time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC),
	}
	header.SetMode(f.mode)
	out, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	if f.source == "" {
		_, err := io.Copy(out, bytes.NewReader(f.text))
		return err
	}
	in, err := files.Open(f.source)
	if err != nil {
		return err
	}
	defer in.Close()
	n, err := io.Copy(out, io.LimitReader(in, f.size+1))
	if err == nil && n != f.size {
		err = errors.New("its size has changed")
	}
	return err
}
