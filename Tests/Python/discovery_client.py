# SPDX-License-Identifier: Apache-2.0
"""google-api-python-client, unmodified, with the gateway as its endpoint.

    discovery_client.py BASE_URL CREDENTIALS TOKEN

walks through what it can do and prints the answers as one line of JSON. CREDENTIALS is the file of a
service account."""

import json
import sys

from google.oauth2 import service_account
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

SCOPES = ["https://www.googleapis.com/auth/firebase.messaging"]


def refused(request):
    try:
        return {"answer": request.execute()}
    except HttpError as error:
        return {"status": error.resp.status, "reason": error.reason}


def main():
    base_url, file, token = sys.argv[1:4]
    fcm = build(
        "fcm", "v1", client_options={"api_endpoint": base_url},
        credentials=service_account.Credentials.from_service_account_file(file, scopes=SCOPES))
    project = "projects/" + json.load(open(file, encoding="utf-8"))["project_id"]
    answers = {}

    messages = fcm.projects().messages()
    for name, dry_run in [("dry", True), ("sent", False)]:
        answers[name] = messages.send(parent=project, body={
            "validateOnly": dry_run,
            "message": {"token": token, "data": {"n": name},
                        "android": {"directBootOk": True, "ttl": "60s"}},
        }).execute()["name"]
    answers["unknown"] = refused(messages.send(
        parent=project, body={"message": {"token": token, "colour": "red"}}))

    topics = fcm.projects().registrations().topicSubscriptions()
    parent = f"{project}/registrations/{token}"
    answers["created"] = topics.create(parent=parent, topicName="news", body={}).execute()
    answers["again"] = refused(topics.create(parent=parent, topicName="news", body={}))
    answers["got"] = topics.get(name=f"{parent}/topicSubscriptions/news").execute()
    answers["patched"] = topics.patch(
        name=f"{parent}/topicSubscriptions/tea", allowMissing=True, body={}).execute()
    listed, request = [], topics.list(parent=parent, pageSize=1)
    while request is not None:
        page = request.execute()
        listed += [topic["topicName"] for topic in page.get("topicSubscriptions", [])]
        request = topics.list_next(request, page)
    answers["listed"] = listed
    answers["deleted"] = topics.delete(name=f"{parent}/topicSubscriptions/news").execute()
    answers["missing"] = refused(topics.get(name=f"{parent}/topicSubscriptions/news"))
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
