// Stand-ins for UnityEngine: what scripts derive from.
using System;
using System.Collections;

namespace UnityEngine
{
    public class Behaviour : Component
    {
        public Behaviour() { }

        public bool enabled { get; set; }

        public bool isActiveAndEnabled => default;
    }

    public class MonoBehaviour : Behaviour
    {
        public MonoBehaviour() { }

        public static void print(object message) { }

        public void CancelInvoke() { }

        public void CancelInvoke(string methodName) { }

        public void Invoke(string methodName, float time) { }

        public void InvokeRepeating(string methodName, float time, float repeatRate) { }

        public Coroutine StartCoroutine(IEnumerator routine) => default;

        public void StopAllCoroutines() { }

        public void StopCoroutine(IEnumerator routine) { }

        public void StopCoroutine(Coroutine routine) { }
    }

    public class ScriptableObject : Object
    {
        public ScriptableObject() { }

        public static ScriptableObject CreateInstance(Type type) => default;

        public static T CreateInstance<T>()
            where T : ScriptableObject => default;
    }
}
