# Install and export rules are added with the consumer project.
