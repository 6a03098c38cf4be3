# Deploys the packaged template with CloudFormation, so template.yaml remains the only description of the stack.

terraform {
  required_version = ">= 1.5"
  required_providers {
    archive = {
      source  = "hashicorp/archive"
      version = ">= 2.4"
    }
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "name" {
  description = "The stack's name. It is the label of the built-in pool and the prefix of most resource names."
  type        = string
  default     = "muster"
}

variable "parameters" {
  description = "The template's parameters by name. Lists are converted to CloudFormation's format."
  type        = any
}

variable "tags" {
  description = "Tags of the stack and its resources."
  type        = map(string)
  default     = {}
}

locals {
  package   = abspath("${path.module}/../..")
  functions = toset(["webhook", "scale-up", "reaper", "runner-api", "admin"])
  source    = file("${local.package}/template.yaml")

  # Only this section: the others have tags that yamldecode does not support.
  declared = yamldecode(regex("(?s)\nParameters:\n(.*?\n)[A-Z]", local.source)[0])
  unknown  = setsubtract(keys(var.parameters), keys(local.declared))
  missing  = [for name, about in local.declared : name if !can(about.Default) && !can(var.parameters[name])]

  # As in `sam deploy`, each CodeUri becomes the address of the function's zip.
  template = join("\n", [
    for line in split("\n", local.source) :
    try("${regex("^ *CodeUri: ", line)}s3://${aws_s3_bucket.code.id}/${aws_s3_object.code[regex("CodeUri: dist/(.*)/$", line)[0]].key}", line)
  ])
}

# CloudFormation reads functions, and a template of this size, only from S3.
resource "aws_s3_bucket" "code" {
  bucket_prefix = "muster-code-"
  force_destroy = true
  tags          = var.tags
}

data "archive_file" "code" {
  for_each         = local.functions
  type             = "zip"
  source_file      = "${local.package}/dist/${each.key}/bootstrap"
  output_file_mode = "0755"
  output_path      = "${path.root}/.terraform/muster/${each.key}.zip"
}

# The current functions are deleted only after the stack's update: a rollback needs them.
resource "aws_s3_object" "code" {
  for_each = local.functions
  bucket   = aws_s3_bucket.code.id
  key      = "${each.key}-${data.archive_file.code[each.key].output_sha256}.zip"
  source   = data.archive_file.code[each.key].output_path

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_s3_object" "template" {
  bucket  = aws_s3_bucket.code.id
  key     = "template-${sha256(local.template)}.yaml"
  content = local.template

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudformation_stack" "muster" {
  name         = var.name
  template_url = "https://${aws_s3_bucket.code.bucket_regional_domain_name}/${aws_s3_object.template.key}"
  parameters   = { for name, value in var.parameters : name => try(join(",", value), tostring(value)) }
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
  on_failure   = "DELETE"
  tags         = var.tags

  lifecycle {
    precondition {
      condition     = length(local.unknown) == 0
      error_message = "The template has no parameter ${join(", ", local.unknown)}. It has ${join(", ", keys(local.declared))}."
    }
    precondition {
      condition     = length(local.missing) == 0
      error_message = "The template needs the parameter ${join(", ", local.missing)} too."
    }
  }
}

output "outputs" {
  description = "The stack's outputs by their names in the template, for example WebhookUrl for the GitHub App."
  value       = aws_cloudformation_stack.muster.outputs
}
