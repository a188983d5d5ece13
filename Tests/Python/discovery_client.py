# SPDX-License-Identifier: Apache-2.0
"""google-api-python-client, unmodified, with the gateway as its endpoint.

    discovery_client.py BASE_URL CREDENTIALS TOKEN APP

walks through what it can do and prints the answers as one line of JSON. CREDENTIALS is the file of a
service account, APP the package name of the token's app."""

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
    base_url, file, token, app = sys.argv[1:5]
    account = service_account.Credentials.from_service_account_file(file, scopes=SCOPES)
    options = {"api_endpoint": base_url}
    fcm = build("fcm", "v1", client_options=options, credentials=account)
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

    fcmdata = build("fcmdata", "v1beta1", client_options=options, credentials=account)
    data = fcmdata.projects().androidApps().deliveryData()
    answers["data"], request = [], data.list(parent=f"{project}/androidApps/{app}", pageSize=1)
    while request is not None:
        page = request.execute()
        answers["data"] += page.get("androidDeliveryData", [])
        request = data.list_next(request, page)
    answers["app"] = refused(data.list(parent=f"{project}/androidApps/org.unknown"))
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
