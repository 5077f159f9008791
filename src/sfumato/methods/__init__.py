"""Methods of anonymization, their plans and their claims."""
