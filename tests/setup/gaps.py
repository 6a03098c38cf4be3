"""Adds what the emulator lacks to a new stack, and registers the stack with the simulated EC2 and GitHub."""

import threading
import time

from botocore.exceptions import ClientError

from stack import allow_batches, control, drop_tls_rule, enable_ttl
from local import load_state


class Gaps(threading.Thread):
    def __init__(self, emulator, name):
        super().__init__(daemon=True)
        self.emulator, self.name, self.failure, self.outputs = emulator, name, None, None

    def run(self):
        try:
            while self.outputs is None:
                self.look()
                time.sleep(0.2)
            self.close()
        except Exception as failure:  # reported by the thread that waits
            self.failure = failure

    def look(self):
        try:
            stack = self.emulator.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"][0]
        except ClientError:
            return
        if stack["StackStatus"] == "CREATE_COMPLETE":
            self.outputs = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}

    def close(self):
        enable_ttl(self.emulator, self.outputs)
        if load_state().get("auth"):
            drop_tls_rule(self.emulator, self.outputs)
            allow_batches(self.emulator, self.name)
        control(
            self.emulator,
            "stacks",
            {
                "stack": self.name,
                "reap_queue_url": self.outputs["ReapQueueUrl"],
                "role_arn": self.outputs["InstanceRoleArn"],
                "launch_templates": [self.outputs["LaunchTemplateId"]],
            },
        )
