// Stand-ins for UnityEngine: places in the scene, and what coroutines wait for.
using System;
using System.Collections;

namespace UnityEngine
{
    public enum Space
    {
        World,
        Self,
    }

    public class Transform : Component, IEnumerable
    {
        protected Transform() { }

        public Vector3 position { get; set; }

        public Vector3 localPosition { get; set; }

        public Quaternion rotation { get; set; }

        public Quaternion localRotation { get; set; }

        public Vector3 eulerAngles { get; set; }

        public Vector3 localEulerAngles { get; set; }

        public Vector3 localScale { get; set; }

        public Vector3 lossyScale => default;

        public Vector3 right { get; set; }

        public Vector3 up { get; set; }

        public Vector3 forward { get; set; }

        public Transform parent { get; set; }

        public Transform root => default;

        public int childCount => default;

        public Transform Find(string n) => default;

        public Transform GetChild(int index) => default;

        public IEnumerator GetEnumerator() => default;

        public Vector3 InverseTransformDirection(Vector3 direction) => default;

        public Vector3 InverseTransformPoint(Vector3 position) => default;

        public void LookAt(Transform target) { }

        public void LookAt(Vector3 worldPosition) { }

        public void Rotate(Vector3 axis, float angle) { }

        public void Rotate(Vector3 axis, float angle, Space relativeTo) { }

        public void SetParent(Transform parent) { }

        public void SetParent(Transform parent, bool worldPositionStays) { }

        public void SetPositionAndRotation(Vector3 position, Quaternion rotation) { }

        public Vector3 TransformDirection(Vector3 direction) => default;

        public Vector3 TransformPoint(Vector3 position) => default;

        public void Translate(Vector3 translation) { }
    }

    public class YieldInstruction
    {
        public YieldInstruction() { }
    }

    public sealed class Coroutine : YieldInstruction
    {
        private Coroutine() { }
    }

    public class AsyncOperation : YieldInstruction
    {
        public AsyncOperation() { }

        public event Action<AsyncOperation> completed
        {
            add { }
            remove { }
        }

        public bool isDone => default;

        public float progress => default;

        public bool allowSceneActivation { get; set; }
    }

    public sealed class WaitForSeconds : YieldInstruction
    {
        public WaitForSeconds(float seconds) { }
    }

    public sealed class WaitForFixedUpdate : YieldInstruction
    {
        public WaitForFixedUpdate() { }
    }

    public sealed class WaitForEndOfFrame : YieldInstruction
    {
        public WaitForEndOfFrame() { }
    }

    public abstract class CustomYieldInstruction : IEnumerator
    {
        protected CustomYieldInstruction() { }

        public abstract bool keepWaiting { get; }

        public object Current => default;

        public bool MoveNext() => default;

        public void Reset() { }
    }
}
