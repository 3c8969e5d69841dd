"""The pages for readers: `page` (the report of a run, a module and a template per section) and `catalog_page`."""
