package page

// Names returns the names of the page's own files.
func Names() []string {
	entries, err := web.ReadDir("web")
	if err != nil {
		panic(err) // impossible: the files are embedded
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
