# The packaged template, deployed by CloudFormation: template.yaml stays the one description of the stack.

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
  description = "The stack's name: the label of its built-in pool, and the beginning of most other names."
  type        = string
  default     = "muster"
}

variable "parameters" {
  description = "The template's parameters, by their names there. A list becomes what CloudFormation takes for one."
  type        = any
}

variable "tags" {
  description = "Tags of the stack and of what it makes."
  type        = map(string)
  default     = {}
}

locals {
  package   = abspath("${path.module}/../..")
  functions = toset(["webhook", "scale-up", "reaper", "runner-api", "admin"])
  source    = file("${local.package}/template.yaml")

  # This section alone: the others have tags that yamldecode does not know.
  declared = yamldecode(regex("(?s)\nParameters:\n(.*?\n)[A-Z]", local.source)[0])
  unknown  = setsubtract(keys(var.parameters), keys(local.declared))
  missing  = [for name, about in local.declared : name if !can(about.Default) && !can(var.parameters[name])]

  # `sam deploy` does the same: each CodeUri becomes the address of the function's zip.
  template = join("\n", [
    for line in split("\n", local.source) :
    try("${regex("^ *CodeUri: ", line)}s3://${aws_s3_bucket.code.id}/${aws_s3_object.code[regex("CodeUri: dist/(.*)/$", line)[0]].key}", line)
  ])
}

# CloudFormation takes functions, and a template of this size, from S3 alone.
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

# What the stack runs now is deleted when its update is done and not before: a rollback needs it.
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
  description = "The stack's outputs, by their names in the template: WebhookUrl is for the GitHub App."
  value       = aws_cloudformation_stack.muster.outputs
}
