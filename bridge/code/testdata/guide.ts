/** Read the complete contents of a file as text */
files.read_text_file(input: {
  path: string;
  /** If provided, returns only the first N lines of the file */
  head?: number;
}): Promise<{
  content: string;
}>
