// Stand-ins for UnityEngine: the types that everything in a scene is made of. Signatures only; nothing happens.
using System;

namespace UnityEngine
{
    [Flags]
    public enum HideFlags
    {
        None = 0,
        HideInHierarchy = 1,
        HideInInspector = 2,
        DontSaveInEditor = 4,
        NotEditable = 8,
        DontSaveInBuild = 16,
        DontUnloadUnusedAsset = 32,
        DontSave = 52,
        HideAndDontSave = 61,
    }

    public enum PrimitiveType
    {
        Sphere,
        Capsule,
        Cylinder,
        Cube,
        Plane,
        Quad,
    }

    public enum SendMessageOptions
    {
        RequireReceiver,
        DontRequireReceiver,
    }

#if UNITY_2023_1_OR_NEWER
    public enum FindObjectsInactive
    {
        Exclude,
        Include,
    }

    public enum FindObjectsSortMode
    {
        None,
        InstanceID,
    }
#endif

    public class Object
    {
        public string name { get; set; }

        public HideFlags hideFlags { get; set; }

        public static implicit operator bool(Object exists) => default;

        public static bool operator ==(Object x, Object y) => default;

        public static bool operator !=(Object x, Object y) => default;

        public static void Destroy(Object obj) { }

        public static void Destroy(Object obj, float t) { }

        public static void DestroyImmediate(Object obj) { }

        public static void DestroyImmediate(Object obj, bool allowDestroyingAssets) { }

        public static void DontDestroyOnLoad(Object target) { }

        public static Object Instantiate(Object original) => default;

        public static Object Instantiate(Object original, Transform parent) => default;

        public static Object Instantiate(Object original, Vector3 position, Quaternion rotation) => default;

        public static T Instantiate<T>(T original)
            where T : Object => default;

        public static T Instantiate<T>(T original, Transform parent)
            where T : Object => default;

        public static T Instantiate<T>(T original, Vector3 position, Quaternion rotation)
            where T : Object => default;

        public static T Instantiate<T>(T original, Vector3 position, Quaternion rotation, Transform parent)
            where T : Object => default;

#if UNITY_2023_1_OR_NEWER
        public static T FindFirstObjectByType<T>()
            where T : Object => default;

        public static T FindFirstObjectByType<T>(FindObjectsInactive findObjectsInactive)
            where T : Object => default;

        public static T FindAnyObjectByType<T>()
            where T : Object => default;

        public static T FindAnyObjectByType<T>(FindObjectsInactive findObjectsInactive)
            where T : Object => default;

        public static T[] FindObjectsByType<T>(FindObjectsSortMode sortMode)
            where T : Object => default;

        public static T[] FindObjectsByType<T>(FindObjectsInactive findObjectsInactive, FindObjectsSortMode sortMode)
            where T : Object => default;
#else
        public static T FindObjectOfType<T>()
            where T : Object => default;

        public static T[] FindObjectsOfType<T>()
            where T : Object => default;
#endif

        public int GetInstanceID() => default;

        public override bool Equals(object other) => default;

        public override int GetHashCode() => default;

        public override string ToString() => default;
    }

    public sealed class GameObject : Object
    {
        public GameObject() { }

        public GameObject(string name) { }

        public GameObject(string name, params Type[] components) { }

        public Transform transform => default;

        public GameObject gameObject => default;

        public SceneManagement.Scene scene => default;

        public string tag { get; set; }

        public int layer { get; set; }

        public bool activeSelf => default;

        public bool activeInHierarchy => default;

        public bool isStatic { get; set; }

        public static GameObject CreatePrimitive(PrimitiveType type) => default;

        public static GameObject Find(string name) => default;

        public static GameObject FindWithTag(string tag) => default;

        public static GameObject FindGameObjectWithTag(string tag) => default;

        public static GameObject[] FindGameObjectsWithTag(string tag) => default;

        public Component AddComponent(Type componentType) => default;

        public T AddComponent<T>()
            where T : Component => default;

        public Component GetComponent(Type type) => default;

        public T GetComponent<T>() => default;

#if UNITY_2019_2_OR_NEWER
        public bool TryGetComponent<T>(out T component)
        {
            component = default;
            return default;
        }
#endif

        public T GetComponentInChildren<T>() => default;

        public T GetComponentInChildren<T>(bool includeInactive) => default;

        public T GetComponentInParent<T>() => default;

        public T[] GetComponents<T>() => default;

        public T[] GetComponentsInChildren<T>() => default;

        public T[] GetComponentsInChildren<T>(bool includeInactive) => default;

        public bool CompareTag(string tag) => default;

        public void SendMessage(string methodName) { }

        public void SendMessage(string methodName, object value) { }

        public void SendMessage(string methodName, SendMessageOptions options) { }

        public void SetActive(bool value) { }
    }

    public class Component : Object
    {
        public Component() { }

        public Transform transform => default;

        public GameObject gameObject => default;

        public string tag { get; set; }

        public bool CompareTag(string tag) => default;

        public Component GetComponent(Type type) => default;

        public T GetComponent<T>() => default;

#if UNITY_2019_2_OR_NEWER
        public bool TryGetComponent<T>(out T component)
        {
            component = default;
            return default;
        }
#endif

        public T GetComponentInChildren<T>() => default;

        public T GetComponentInChildren<T>(bool includeInactive) => default;

        public T GetComponentInParent<T>() => default;

        public T[] GetComponents<T>() => default;

        public T[] GetComponentsInChildren<T>() => default;

        public T[] GetComponentsInChildren<T>(bool includeInactive) => default;
    }
}
