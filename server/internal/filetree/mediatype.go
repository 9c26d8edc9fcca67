package filetree

import (
	"bytes"
	"mime"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/mcp"
)

// MediaType returns the media type for the extension of a name, or "".
func MediaType(name string) string { return Types[strings.ToLower(path.Ext(name))] }

// Types are media types by extension. The table of the operating system is not used, because
// it differs between machines.
var Types = map[string]string{
	".7z":    "application/x-7z-compressed",
	".avif":  "image/avif",
	".bash":  "text/x-shellscript",
	".bmp":   "image/bmp",
	".bz2":   "application/x-bzip2",
	".c":     "text/x-c",
	".cc":    "text/x-c++",
	".cfg":   "text/plain",
	".conf":  "text/plain",
	".cpp":   "text/x-c++",
	".cs":    "text/x-csharp",
	".css":   "text/css",
	".csv":   "text/csv",
	".diff":  "text/x-diff",
	".doc":   "application/msword",
	".docx":  "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".env":   "text/plain",
	".epub":  "application/epub+zip",
	".flac":  "audio/flac",
	".gif":   "image/gif",
	".go":    "text/x-go",
	".gz":    "application/gzip",
	".h":     "text/x-c",
	".hpp":   "text/x-c++",
	".htm":   "text/html",
	".html":  "text/html",
	".ico":   "image/vnd.microsoft.icon",
	".ini":   "text/plain",
	".ipynb": "application/x-ipynb+json",
	".jar":   "application/java-archive",
	".java":  "text/x-java",
	".jpeg":  "image/jpeg",
	".jpg":   "image/jpeg",
	".js":    "text/javascript",
	".json":  "application/json",
	".jsonl": "application/jsonl",
	".jsx":   "text/javascript",
	".kt":    "text/x-kotlin",
	".log":   "text/plain",
	".lua":   "text/x-lua",
	".m4a":   "audio/mp4",
	".md":    "text/markdown",
	".mjs":   "text/javascript",
	".mov":   "video/quicktime",
	".mp3":   "audio/mpeg",
	".mp4":   "video/mp4",
	".odt":   "application/vnd.oasis.opendocument.text",
	".ogg":   "audio/ogg",
	".opus":  "audio/ogg",
	".otf":   "font/otf",
	".patch": "text/x-diff",
	".pdf":   "application/pdf",
	".php":   "text/x-php",
	".pl":    "text/x-perl",
	".png":   "image/png",
	".pptx":  "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".proto": "text/x-protobuf",
	".ps1":   "text/x-powershell",
	".py":    "text/x-python",
	".rb":    "text/x-ruby",
	".rs":    "text/x-rust",
	".rst":   "text/x-rst",
	".rtf":   "application/rtf",
	".scala": "text/x-scala",
	".sh":    "text/x-shellscript",
	".sql":   "application/sql",
	".svg":   "image/svg+xml",
	".swift": "text/x-swift",
	".tar":   "application/x-tar",
	".tex":   "application/x-tex",
	".tgz":   "application/gzip",
	".tif":   "image/tiff",
	".tiff":  "image/tiff",
	".toml":  "application/toml",
	".ts":    "text/x-typescript",
	".tsv":   "text/tab-separated-values",
	".tsx":   "text/x-typescript",
	".ttf":   "font/ttf",
	".txt":   "text/plain",
	".wasm":  "application/wasm",
	".wav":   "audio/wav",
	".webm":  "video/webm",
	".webp":  "image/webp",
	".woff":  "font/woff",
	".woff2": "font/woff2",
	".xhtml": "application/xhtml+xml",
	".xls":   "application/vnd.ms-excel",
	".xlsx":  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".xml":   "application/xml",
	".xz":    "application/x-xz",
	".yaml":  "application/yaml",
	".yml":   "application/yaml",
	".zip":   "application/zip",
	".zst":   "application/zstd",
}

// textTypes are textual types other than text/* and those with a suffix such as +json.
var textTypes = []string{
	"application/ecmascript", "application/graphql", "application/javascript", "application/json", "application/json-seq",
	"application/jsonl", "application/sql", "application/toml", "application/typescript", "application/x-javascript",
	"application/x-ndjson", "application/x-sh", "application/x-tex", "application/x-toml", "application/x-yaml",
	"application/xml", "application/xml-dtd", "application/yaml",
}

// IsText reports whether a media type is textual, with an encoding that is part of UTF-8.
func IsText(mimeType string) bool {
	media, params, err := mime.ParseMediaType(mimeType)
	if err != nil || !IsUTF8(params["charset"]) {
		return false
	}
	if strings.HasPrefix(media, "text/") || slices.Contains(textTypes, media) {
		return true
	}
	plus := strings.LastIndexByte(media, '+')
	return plus >= 0 && slices.Contains([]string{"+json", "+xml", "+yaml"}, media[plus:])
}

// IsUTF8 reports whether a charset is empty, UTF-8 or US-ASCII.
func IsUTF8(charset string) bool {
	return slices.Contains([]string{"", "utf-8", "utf8", "us-ascii"}, strings.ToLower(charset))
}

// Contents returns data as text or as a blob. mimeType is empty if it is unknown.
func Contents(uri, mimeType string, data []byte) mcp.ResourceContents {
	valid := utf8.Valid(data)
	if mimeType == "" {
		mimeType = "application/octet-stream"
		if valid && bytes.IndexByte(data, 0) < 0 {
			mimeType = "text/plain"
		}
	}
	if valid && IsText(mimeType) {
		return &mcp.TextResourceContents{URI: uri, MIMEType: mimeType, Text: string(data)}
	}
	return &mcp.BlobResourceContents{URI: uri, MIMEType: mimeType, Blob: data}
}
