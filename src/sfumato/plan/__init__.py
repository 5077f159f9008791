"""The contract between methods and engines: questions, plans and claims."""
